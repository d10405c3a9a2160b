"""Numbers, quantities, phrases and tables in plain text, the same in every report."""
