"""Reading and writing aai.json and agent registrations, in every spelling that was ever published. Pure."""
