"""One module per command, each a composition root with a click command called `command`.

`main` imports a module only when its command is called. Those that run a component lie in `components`.
"""
