"""Steps: what a loop repeats. A builder of language.py, vision.py or others.py returns a function that takes one step
and returns its loss. Nothing in them knows about Ebbtide."""


def training(model, optimizer, make_batch, loss_of):
    """One step of training as most programs write it."""
    model.train()

    def step():
        batch = make_batch()
        optimizer.zero_grad()
        loss = loss_of(batch)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
