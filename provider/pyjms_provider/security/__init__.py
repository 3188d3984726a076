"""Authentication, access control, the audit log, and secrets."""
