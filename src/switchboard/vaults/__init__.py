"""Where secrets and decisions are kept: the keychain, or an encrypted file."""
