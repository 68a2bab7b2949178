"""Any models, measured side by side."""
