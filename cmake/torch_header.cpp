// The translation unit that owns the precompiled <torch/torch.h>.
