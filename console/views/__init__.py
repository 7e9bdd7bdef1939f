"""What people see: one module a family of pages. Gate, form, one ledger call or one query, render."""
