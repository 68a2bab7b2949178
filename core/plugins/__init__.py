"""Plugins: registry, options and positions of passes that do not come with passwright.

`plugin` defines what a package or file provides, and inserts its passes into a pipeline; `pass_registry` finds plugins,
loads them, and holds all passes by name. `pass_spec` reads texts as `basic,fold-constants{max_growth=1MB}`, and
`networkx_pass` makes passes of functions of a networkx graph. Names that
a user writes are resolved in `app.registry`.
"""
