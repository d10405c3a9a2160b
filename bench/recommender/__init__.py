"""The recommender's pass, alone and beside upstream's."""
