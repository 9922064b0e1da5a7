import sys; sys.path[:0]=['/tmp/w7/ngram/power/examples/zoo']
from pathlib import Path
import row_costs
c=row_costs.row_costs_ms(Path(sys.argv[1]),[i%900+10 for i in range(200)],threads=int(sys.argv[2]))
print(' '.join(f"{k}:{v/c[1]:.2f}" for k,v in c.items()),f"1 row {c[1]*1e3:.0f} us")
