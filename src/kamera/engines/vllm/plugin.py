"""The entry point `vllm.general_plugins`: vLLM calls it in every process."""

CONNECTOR = "KameraConnector"
"""The name to give as `kv_connector`."""


def register() -> None:
    """Make the connector known by its name. Loads nothing yet."""
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    if CONNECTOR not in KVConnectorFactory._registry:
        KVConnectorFactory.register_connector(CONNECTOR, "kamera.engines.vllm.connector", CONNECTOR)
