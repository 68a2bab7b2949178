"""How two models differ in structure: what was removed, added, replaced and changed."""
