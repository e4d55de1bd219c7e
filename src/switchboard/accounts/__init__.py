"""What the user has signed in with, and how: OAuth, keys, app credentials, cookies."""
