"""What the platform's monitoring answers: alerts and silences, figures, logs. It must not decide what they mean."""
