"""What is done about a call: a Snapshot is read, decided on, and the Decision carried out."""
