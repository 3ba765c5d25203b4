"""Epochs that a framework cuts short, and the data that it chooses."""
import os
import tempfile
import unittest

import integrations_test
from integrations_test import lightning_training, train, trainer_training


@integrations_test.needs("lightning")
class Lightning(integrations_test.Framework):
    def test_resumes_in_the_middle_of_an_epoch_of_some_batches_or_a_part_of_them(self):
        for limit in (6, 0.75):
            with tempfile.TemporaryDirectory() as folder:
                whole = train(lightning_training, 2, folder=folder, save_at=8, limit=limit)
                self.assertEqual(whole[0]["step"], 12)
                self.check_resumed(whole, train(lightning_training, 2, folder=folder, resume=True, limit=limit))

    def test_overfits_to_the_same_batches(self):
        trained = train(lightning_training, 2, overfit_batches=2)[0]["trained"]
        self.assertEqual(sorted(trained), sorted(2 * list(range(22))))

    def test_refuses_loaders_that_are_made_anew(self):
        with self.assertRaisesRegex(RuntimeError, "NotImplementedError: reload_dataloaders_every_n_epochs: .* of one data set"):
            train(lightning_training, 1, reload_dataloaders_every_n_epochs=1)


@integrations_test.needs("transformers", "accelerate")
class TransformersTrainer(integrations_test.Framework):
    def test_goes_on_behind_an_epoch_whose_rest_was_dropped(self):
        with tempfile.TemporaryDirectory() as folder:
            options = {"watch": False, "dataloader_drop_last": True, "folder": folder}
            whole = train(trainer_training, 2, save_strategy="epoch", **options)
            again = train(trainer_training, 2, resume=os.path.join(folder, "checkpoint-7"), **options)
        self.assertEqual((whole[0]["step"], whole[0]["epoch"]), (14, 2.0))
        self.check_resumed(whole, again)


if __name__ == "__main__":
    unittest.main()
