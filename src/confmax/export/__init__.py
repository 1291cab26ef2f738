"""Exports of a rule to SQL, ONNX and Python, which decide alike."""

from confmax.export.labels import labels_to_onnx, labels_to_python, labels_to_sql
from confmax.export.onnx import to_onnx
from confmax.export.python import to_python
from confmax.export.sql import to_sql

__all__ = ["labels_to_onnx", "labels_to_python", "labels_to_sql", "to_onnx", "to_python", "to_sql"]
