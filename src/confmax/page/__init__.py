"""The page of a report: its words, charts, template and file (extra ``report``).

A page is made in four steps that pass records on: evidence (`confmax.evaluate.evidence`: rows, and decisions for each
row by a rule that was not tuned on it), figures (`confmax.evaluate.figures`: every number, from one bootstrap), words
and charts (computed from the figures alone), and the template, which escapes every value.
"""
