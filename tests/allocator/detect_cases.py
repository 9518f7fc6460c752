"""Steps of torchvision's detectors on the host with real values, followed tensor by tensor, beside tapes of the same models: cases
for `memwall validate` whose plans name the tapes.

    python detect_cases.py [NAME…] > FOLDER/detectors.jsonl

The tapes are made by `memwall trace --torchvision NAME -o FOLDER/tv-NAME.tape.json.gz`. Two images of 800 by 800 pixels of noise with
ten boxes each, by places that chance chooses; the second step of SGD with momentum is measured, in fp32. Masks and points of
bodies are made for samples on objects: thresholds are so low there that these are the quarter of all samples that the tape takes
them for. A keypoint detector draws the side that it scales images to; here it is the middle one.
"""

import json
import sys

import measure
import torch
import torchvision

BATCH, SIDE, OBJECTS = 2, 800, 10
NAMES = ("fasterrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "fcos_resnet50_fpn", "ssd300_vgg16", "maskrcnn_resnet50_fpn",
         "keypointrcnn_resnet50_fpn")


class Ledger(measure.Ledger):
    """measure.py's, of real tensors on the host."""

    def run(self, func, args, kwargs):
        return func(*args, **kwargs)

    def holds(self, tensor):
        return True


def targets_of(name):
    """What is to be found in each image."""
    corners, sides = torch.rand(BATCH, OBJECTS, 2) * SIDE * 0.6, torch.rand(BATCH, OBJECTS, 2) * SIDE * 0.35 + 8
    boxes, labels = torch.cat([corners, corners + sides], -1), torch.randint(1, 90, (BATCH, OBJECTS))
    found = [{"boxes": one, "labels": labels[at]} for at, one in enumerate(boxes)]
    for one in found:
        if name.startswith("maskrcnn"):
            one["masks"] = torch.zeros(OBJECTS, SIDE, SIDE, dtype=torch.uint8)
            for mask, (left, top, right, bottom) in zip(one["masks"], one["boxes"].int().tolist()):
                mask[top:bottom, left:right] = 1
        if name.startswith("keypointrcnn"):
            one["keypoints"] = torch.rand(OBJECTS, 17, 3) * SIDE
            one["keypoints"][..., 2] = 1
            one["labels"] = torch.ones(OBJECTS, dtype=torch.int64)
    return found


def followed(name):
    torch.manual_seed(0)
    low = {"box_fg_iou_thresh": 1e-4, "box_bg_iou_thresh": 1e-4} if name.startswith(("mask", "keypoint")) else {}
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, **low).train()
    if name.startswith("keypoint"):
        sides = model.transform.min_size
        model.transform.min_size = (sides[len(sides) // 2],)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, foreach=True)
    images, targets = torch.rand(BATCH, 3, SIDE, SIDE), targets_of(name)
    ledger = Ledger()
    with ledger:
        for tensor in [*parameters, *model.buffers(), images, *(one for target in targets for one in target.values())]:
            ledger.follow(tensor.data)
        def loss_of():
            return sum(model(list(images), targets).values())

        activations, flops = measure.second_step(ledger, {}, loss_of, optimizer.step, parameters)
    print(name, ledger.at, file=sys.stderr, flush=True)
    return {"params": sum(one.numel() for one in parameters), "peak_allocated_bytes": ledger.peak,
            "activation_bytes": activations, "flops_forward": flops["forward"], "flops_backward": flops["backward"]}


if __name__ == "__main__":
    source = f"tests/allocator/detect_cases.py with PyTorch {torch.__version__.split('+')[0]}, torchvision {torchvision.__version__}"
    for name in sys.argv[1:] or NAMES:
        plan = {"model": {"trace": f"tv-{name}.tape.json.gz"},
                "training": {"precision": "fp32", "micro_batch_size": BATCH, "optimizer": "sgd-momentum"},
                "hardware": {"gpu_type": "NVIDIA H100", "library_workspaces": False}}
        print(json.dumps({"id": f"detector-{name}", "group": "traced", "source": source, "plan": plan, "measured": followed(name)}),
              flush=True)
