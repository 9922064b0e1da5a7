import sys
from pathlib import Path

ZOO = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ZOO), str(ZOO / "src")]
