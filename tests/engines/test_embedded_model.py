from pairproxy.engines.embedded_model import MODEL_NAME, model_card, replica


def test_card_and_replica_name_the_same_content() -> None:
    """What Ollama's clients see and what nodes compare agree in name, hash and window."""
    card, ours = model_card(2048), replica(2048)
    assert (ours.model, ours.identity) == (MODEL_NAME, f"sha256:{card.digest}")
    assert ours.context_tokens == card.context_length == 2048
