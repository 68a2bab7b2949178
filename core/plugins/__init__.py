"""Plugins: registry, options and positions of passes that are not built in.

`plugin` defines what a package or file provides, and inserts its passes into a pipeline; `pass_registry` finds and
loads plugins, and stores all passes by name. `pass_spec` parses texts such as `basic,fold-constants{max_growth=1MB}`,
and `networkx_pass` makes passes from functions of a networkx graph. `app.registry` resolves names that users write.
"""
