"""Exports of a rule to SQL, ONNX and Python, which decide alike."""
