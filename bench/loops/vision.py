"""Vision models, as `torchvision`, `timm` and `diffusers` build them, with random weights."""

import torch
from steps import training
from torch.nn import functional as F


def _images(model, optimizer, count, side):
    return training(model, optimizer,
                    lambda: (torch.randn(count, 3, side, side), torch.randint(0, 1000, (count,))),
                    lambda batch: F.cross_entropy(model(batch[0]), batch[1]))


def vit(quick):
    import timm
    from timm.optim import create_optimizer_v2

    model = timm.create_model("vit_tiny_patch16_224" if quick else "vit_base_patch16_224")
    optimizer = create_optimizer_v2(model, opt="adamw", lr=5e-4, weight_decay=0.05, foreach=True)
    return _images(model, optimizer, 1 if quick else 8, 224)


def resnet152(quick):
    import torchvision

    model = torchvision.models.resnet18() if quick else torchvision.models.resnet152()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    return _images(model, optimizer, *((1, 64) if quick else (8, 160)))


def swin(quick):
    from torchvision.models import SwinTransformer, swin_s

    model = SwinTransformer([4, 4], 48, [2, 2], [2, 4], [7, 7]) if quick else swin_s()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    return _images(model, optimizer, *((1, 112) if quick else (4, 224)))


def unet(quick):
    """The step of diffusers' example examples/unconditional_image_generation, without its copy of averaged weights."""
    from diffusers import DDPMScheduler, UNet2DModel

    channels = (32, 32, 64, 64, 128, 128) if quick else (128, 128, 256, 256, 512, 512)
    count, side = (1, 32) if quick else (2, 64)
    down = ["DownBlock2D"] * 4 + ["AttnDownBlock2D", "DownBlock2D"]
    up = ["UpBlock2D", "AttnUpBlock2D"] + ["UpBlock2D"] * 4
    model = UNet2DModel(sample_size=side, in_channels=3, out_channels=3, layers_per_block=2,
                        block_out_channels=channels, down_block_types=down, up_block_types=up)
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.95, 0.999), weight_decay=1e-6)

    def loss_of(images):
        noise = torch.randn_like(images)
        times = torch.randint(0, 1000, (count,))
        return F.mse_loss(model(scheduler.add_noise(images, noise, times), times).sample, noise)

    return training(model, optimizer, lambda: torch.randn(count, 3, side, side), loss_of)
