"""Sign-in of people at an OpenID Connect issuer, and verification of the tokens that it gives them."""
