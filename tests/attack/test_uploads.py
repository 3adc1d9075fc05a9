from tests.attack.uploads import attack_uploads


def test_mutated_uploads(tmp_path, monkeypatch):
    from gddsg.photos import model_backbone

    monkeypatch.setattr(model_backbone, "load_backbone", model_backbone.load_backbone)  # put back in the end
    counts = attack_uploads(100, 0, tmp_path)
    assert counts.failures == []
    assert counts.tried == 100
