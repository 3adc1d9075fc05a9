"""How the documentation site is built: hooks of MkDocs, and checks of what they made."""
