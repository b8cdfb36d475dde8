"""The paper's tables and figures, one file each, and what they share.

reproduction   one table or figure: what the paper measured, how ours is made, what is judged
claim          a figure of the paper and the rule that ours is held to
figures        figures with their intervals
curve          means at several x, as lines are drawn from them
knee           the functional rank with its interval
reuse_gate     how often a gate by divergence is wrong
chart          what is drawn
subject        one model under measurement; what several take from it is measured once
registry       all of them
"""
