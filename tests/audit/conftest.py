"""Flawed mechanisms for the tests to import: test modules here cannot import their neighbours."""

import importlib.util
import sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("flawed", Path(__file__).parent / "flawed.py")
sys.modules["flawed"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["flawed"])
