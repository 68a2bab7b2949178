"""Plugins: discovery, registry, options and positions of passes that do not come with passwright.

`plugin` defines what a package or file provides, `discovery` finds and loads it, `pass_registry` holds all passes by
name. `pass_spec` reads texts as `basic,fold-constants{max_growth=1MB}`, and `pass_placement` orders the passes that
they name. Names that a user writes are resolved in `app.registry`.
"""
