"""A server that speaks S3, on the loopback."""

import pytest


@pytest.fixture(scope="session")
def s3():
    """The address of a server that speaks S3, with the bucket "indexes"."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", address)
        patch.setenv("AWS_ACCESS_KEY_ID", "user")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        boto3.client("s3").create_bucket(Bucket="indexes")
        yield address
    server.stop()


@pytest.fixture
def url(s3, request):
    return f"s3://indexes/{abs(hash(request.node.name))}"
