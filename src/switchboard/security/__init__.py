"""May this caller, and with which secret: consent, trust, secrets, sign-in."""
