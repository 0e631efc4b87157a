"""Applies an exported model with onnxruntime:  python3 apply_onnx.py model.onnx records.csv

Needs `pip install onnxruntime numpy`. Prints the probability of the positive class (or the number, or one probability per class) of every record, one a line.
The CSV must be separated by commas and complete.
"""
import csv, sys
import numpy, onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
records = list(csv.DictReader(open(sys.argv[2], encoding="utf-8-sig")))
feed = {}
for column in session.get_inputs():
    kind = object if column.type == "tensor(string)" else float
    feed[column.name] = numpy.array([[kind(record[column.name].strip()) if kind is float else record[column.name].strip()] for record in records], dtype=kind)
names = [output.name for output in session.get_outputs()]
answers = dict(zip(names, session.run(None, feed)))
for row in answers.get("probability", answers.get("probabilities", answers["prediction"])):
    print(*row)
