"""Probes: small measurements of one claim each; docs/lab/probes.md has a row for each.

operator        is relocation exact, and does it drift?
windows         reorder, sliding-window survival and recall (paper section 5, Table 1)
drift           how far may the antecedent drift before a patch must be rebuilt? (paper Appendix D)
state_merge     is readout lossless?
mask_isolation  is the loss conditioning, not position?
rank_sweep      how thin is the patch?
energy          where is the deficit's energy?
depth_profile   how deep is the deficit, and is it conditioning?
single_layer    is there a shallow shortcut?
token_diffuseness, head_sparsity   do a few tokens, or a few heads, hold it?
landmark_keys   how many of A's keys does B look at?
selector_recall can a cheap signal find the tokens of most deficit?
content_change  does the deficit lie where the picture changes?
basis_transfer  are its directions the model's own?
modality_scope  where does the effect live?

case            one window with the chunk that is looked at: what all of these take
cross_attention B's attention to A
outcome, window_items   what window operations give, and the frames that they draw
motion          block matching between two frames
paper           what the paper measured
"""
