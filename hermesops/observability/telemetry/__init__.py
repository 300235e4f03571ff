"""Client of the platform's monitoring: reads alerts, silences, metrics and logs, without judging them."""
