"""Parts of an explanation, as data: the fields that `--json` prints, for each kind of object."""
