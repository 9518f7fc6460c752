"""torchvision's detectors: a list of images, and what is to be found in each of them (references/detection/train.py)."""

import torch

from sources import Input, Subject

# Objects in an image; COCO's have seven on average, in large batches rarely more than this in each.
OBJECTS = 10
# What is to be found: boxes and classes always; a mask of the image's size, or points of a body.
FOUND = ("boxes", "labels", "masks", "keypoints")
BODY = 17
# Images for each GPU, and the shorter side to which the models scale them (detection/transform.py).
BATCH, SIDE = 2, 800


class Numbers(Input):
    """Numbers that are fp32 whatever the model's weights are."""

    def make(self, sizes, device, lower):
        return super().make(sizes, device, None)


class Detector(Subject):
    """A model that loops over its images: a tape holds for one batch."""

    def __init__(self, name, source, build):
        inputs = [Input("0", torch.float32, ["B", 3, SIDE, SIDE]), Numbers("_boxes", torch.float32, ["B", OBJECTS, 4]),
                  Input("_labels", torch.int64, ["B", OBJECTS])]
        if name.startswith("maskrcnn"):
            inputs.append(Input("_masks", torch.uint8, ["B", OBJECTS, SIDE, SIDE]))
        if name.startswith("keypointrcnn"):
            inputs.append(Numbers("_keypoints", torch.float32, ["B", OBJECTS, BODY, 3]))
        super().__init__(name, source, build, inputs)
        self.hold_batch(BATCH)
        self.notes = [f"images of {SIDE} by {SIDE} pixels with {OBJECTS} objects each"]

    def hold_batch(self, batch):
        self.held["B"] = batch

    def run(self, model, batch):
        images = list(batch["0"])
        if self.answers:
            return model(images)
        found = [key for key in FOUND if f"_{key}" in batch]
        targets = [dict(zip(found, one)) for one in zip(*(batch[f"_{key}"] for key in found))]
        return sum(model(images, targets).values())
