"""Access control: permissions, roles and principals are plain values; keys, users and the audit are stored."""
