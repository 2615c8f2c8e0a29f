"""OpenStack Swift with its S3 interface on loopback, for tests against an S3 service that is not of our making.

    /usr/bin/python3 swift_gateway.py DIRECTORY --port-file FILE --access-key KEY --secret-key SECRET --region NAME [--port N]

Debian's Python runs it, as that has Swift (scripts/setup-s3-gateway installs it). The proxy, which verifies signatures, has a
process per processor, as where it is installed; the servers for accounts, containers and objects share the first
process. All of them die with that. Objects stay in DIRECTORY, whose file system must have user attributes. FILE gets the
proxy's port.
"""

import argparse
import ctypes
import os
import signal
import socket
from time import monotonic

import eventlet
import eventlet.wsgi

eventlet.monkey_patch()

from swift.common import utils, wsgi  # noqa: E402  They take the patched modules.
from swift.common.ring import RingBuilder  # noqa: E402

STORES = ("account", "container", "object")
PARTITION_BITS = 3
MOST_PROXIES = 4
PR_SET_PDEATHSIG = 1  # of Linux
SERVER = """[DEFAULT]
swift_dir = {place}
devices = {place}/devices
mount_check = false
log_level = WARNING
bind_port = {port}
"""
# On a busy machine, Swift's own limits would let an object be written without being listed.
STORE = SERVER + """
[app:main]
use = egg:swift#{store}
conn_timeout = 30
node_timeout = 60
container_update_timeout = 60
"""
PROXY = SERVER + """
[pipeline:main]
pipeline = catch_errors cache s3api tempauth proxy-server

[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
conn_timeout = 30
node_timeout = 60
recoverable_node_timeout = 60

[filter:catch_errors]
use = egg:swift#catch_errors

[filter:cache]
paste.filter_factory = swift_gateway:memory_cache

[filter:s3api]
use = egg:swift#s3api
location = {region}
allow_multipart_uploads = false

[filter:tempauth]
use = egg:swift#tempauth
user_{user} = {secret_key} .admin
"""


class MemoryCache:
    """In place of memcached: TempAuth wants a cache, and the proxy remembers in it which containers there are."""

    def __init__(self):
        self._kept = {}

    def get(self, key, raise_on_error=False):
        value, end = self._kept.get(key, (None, 0))
        return value if not end or monotonic() < end else None

    def set(self, key, value, serialize=True, time=0, min_compress_len=0, raise_on_error=False):
        self._kept[key] = (value, time and monotonic() + time)

    def delete(self, key, server_key=None):
        self._kept.pop(key, None)


def memory_cache(_global_settings, **_settings):
    cache = MemoryCache()

    def add(app):
        def call(environment, start_response):
            environment["swift.cache"] = cache
            return app(environment, start_response)
        return call
    return add


def write_file(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def write_rings(place, ports):
    for store in STORES:
        builder = RingBuilder(PARTITION_BITS, replicas=1, min_part_hours=0)
        builder.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1, "ip": "127.0.0.1", "port": ports[store],
                         "device": "disk"})
        builder.rebalance(seed=1)
        builder.get_ring().save(f"{place}/{store}.ring.gz")


def listen(port):
    listening = eventlet.listen(("127.0.0.1", port))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Swift's own programs do; connections inherit it
    return listening


def serve(app, listening):
    eventlet.wsgi.server(listening, app, utils.NullLogger(), protocol=wsgi.SwiftHttpProtocol)


def fork_proxy(app, listening):
    """Most of a request's time is spent in the proxy."""
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a test kills the first process
        eventlet.hubs.use_hub()
        serve(app, listening)
        os._exit(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--port-file", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--access-key", required=True, help="ACCOUNT:USER, which TempAuth makes of a user")
    parser.add_argument("--secret-key", required=True)
    parser.add_argument("--region", required=True)
    arguments = parser.parse_args()
    place = os.path.abspath(arguments.directory)
    os.makedirs(f"{place}/devices/disk", exist_ok=True)
    os.setxattr(f"{place}/devices/disk", "user.kvkeep-test", b"Swift keeps what it knows of an object in such attributes")
    sockets = {name: listen(arguments.port if name == "proxy" else 0) for name in (*STORES, "proxy")}
    ports = {name: listening.getsockname()[1] for name, listening in sockets.items()}
    write_file(f"{place}/swift.conf", "[swift-hash]\nswift_hash_path_suffix = kvkeep\n")
    write_rings(place, ports)
    for name, port in ports.items():
        write_file(f"{place}/{name}.conf", (PROXY if name == "proxy" else STORE).format(
            place=place, port=port, store=name, region=arguments.region, user=arguments.access_key.replace(":", "_"),
            secret_key=arguments.secret_key))
    utils.set_swift_dir(place)
    utils.disable_fallocate()
    apps = {name: wsgi.loadapp(f"{place}/{name}.conf") for name in sockets}
    write_file(f"{arguments.port_file}.new", str(ports["proxy"]))
    os.rename(f"{arguments.port_file}.new", arguments.port_file)
    for _ in range(min(os.cpu_count(), MOST_PROXIES)):
        fork_proxy(apps["proxy"], sockets["proxy"])
    for store in STORES:
        eventlet.spawn(serve, apps[store], sockets[store])
    while True:
        eventlet.sleep(3600)


if __name__ == "__main__":
    main()
