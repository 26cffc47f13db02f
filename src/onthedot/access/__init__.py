"""Access control: permissions, roles and principals are pure; keys, users and the audit are documents of the store."""
