"""The contract of message stores, and messages that are paged out to one."""
