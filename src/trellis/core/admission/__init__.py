"""What becomes of an object that somebody is about to create or change?

`reviews` reads the API server's question and writes the answer, `governors` and `decisions` find what sizes a pod,
`pods` sizes it, and `objects` judges our own kinds.
"""
