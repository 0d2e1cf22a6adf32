"""What an endpoint really does: a probe of at most 40 calls, and a finding a row. `probe` looks, `judging`
judges.
"""
