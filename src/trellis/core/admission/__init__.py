"""Decides what becomes of an object that is about to be created or changed.

`reviews` reads an AdmissionReview and writes its response, `decisions` finds the governor of a pod, `pods` sizes the
pod, and `objects` validates Trellis' own kinds.
"""
