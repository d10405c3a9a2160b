"""What becomes of an object that somebody is about to create or change?

`reviews` reads the API server's question and writes the answer, `pods` sizes a pod, `objects` judges our own kinds.
"""
