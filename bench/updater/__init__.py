"""The updater's pass, alone and beside upstream's."""
