"""What all tests share: Java compiles little."""

import os

# Spark's programs are short here: Java's optimising compiler takes about half of their processor time
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
