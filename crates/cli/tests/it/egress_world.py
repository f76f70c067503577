"""A network of its own with a name server and hosts that note what reaches them.

Runs inside fresh network and mount namespaces as root of them. Argument: a JSON object
{"names": {NAME: [[ADDRESS, ...], ...]}, "run": ARGV}. Each lookup of a name takes its next list of
addresses; the last one stays. With "identity", a file of a key and its certificate, port 443 answers TLS
too. Every host is also a proxy for tunnels. Prints what happened as JSON.
"""
import ctypes, fcntl, json, os, socket, ssl, struct, subprocess, sys, threading, time

ADDRESSES = ["1.1.1.1", "1.1.1.2", "169.254.169.254"]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"
AWAY = b"HTTP/1.1 302 Found\r\nLocation: http://b.test/next\r\nContent-Length: 0\r\n\r\n"
plan = json.loads(sys.argv[1])
seen = {"dns": [], "sinks": {}}
busy = threading.Semaphore(0)


def interface(name, address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        if address:
            inet = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(control, 0x8916, struct.pack("16s16s", name.encode(), inet))
        fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", name.encode(), 0x41))


def overlay(path, text):
    place = os.path.join(plan["dir"], os.path.basename(path))
    with open(place, "w") as file:
        file.write(text)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(place.encode(), path.encode(), None, 4096, None) != 0:
        raise OSError(ctypes.get_errno(), "mount " + path)


def name_server(listener):
    lists = {name: list(answers) for name, answers in plan["names"].items()}
    while True:
        query, peer = listener.recvfrom(512)
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        kind = struct.unpack(">H", query[at + 1 : at + 3])[0]
        name = ".".join(labels).lower()
        seen["dns"].append(name)
        known = lists.get(name)
        addresses = []
        if known and kind == 1:
            addresses = known.pop(0) if len(known) > 1 else known[0]
        flags = 0x8180 if known else 0x8183
        answer = query[:2] + struct.pack(">HHHHH", flags, 1, len(addresses), 0, 0)
        answer += query[12 : at + 5]
        for address in addresses:
            answer += struct.pack(">HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton(address)
        listener.sendto(answer, peer)


def tunnel(stream, target):
    host, port = target.rsplit(":", 1)
    stream.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
    with socket.create_connection((host, int(port))) as other:
        def answers():
            while piece := other.recv(4096):
                stream.sendall(piece)
            stream.shutdown(socket.SHUT_WR)

        back = threading.Thread(target=answers, daemon=True)
        back.start()
        while piece := stream.recv(4096):
            other.sendall(piece)
        other.shutdown(socket.SHUT_WR)
        back.join(10)


def serve(stream, key, port):
    stream.settimeout(10)
    got = b""
    try:
        if port == 443 and "identity" in plan and stream.recv(1, socket.MSG_PEEK) == b"\x16":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(plan["identity"])
            stream, port = context.wrap_socket(stream, server_side=True), 80
        while b"\r\n\r\n" not in got and (port != 443 or len(got) < 5):
            piece = stream.recv(4096)
            if not piece:
                break
            got += piece
        if got.startswith(b"CONNECT "):
            tunnel(stream, got.split()[1].decode())
        elif port != 443:
            stream.sendall(AWAY if got.startswith(b"GET /away") else OK)
    except OSError:
        pass
    stream.close()
    seen["sinks"].setdefault(key, []).append(got.decode("latin-1"))


def sink(listener, key, port):
    while True:
        stream, _ = listener.accept()
        thread = threading.Thread(target=serve, args=(stream, key, port), daemon=True)
        thread.start()


interface("lo", None)
for number, address in enumerate(ADDRESSES):
    interface("lo:%d" % (number + 1), address)
overlay("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
overlay("/etc/nsswitch.conf", "hosts: dns\n")
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("127.0.0.1", 53))
threading.Thread(target=name_server, args=(names,), daemon=True).start()
for address in ADDRESSES + ["127.0.0.1"]:
    for port in (80, 443, 8080):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(64)
        threading.Thread(
            target=sink, args=(listener, "%s:%d" % (address, port), port), daemon=True
        ).start()

ran = subprocess.run(plan["run"], stdin=subprocess.DEVNULL, capture_output=True, timeout=100)
# What arrived last: a connection of our own comes behind every other one, so those are noted.
for address in ADDRESSES + ["127.0.0.1"]:
    for port in (80, 443, 8080):
        with socket.create_connection((address, port)) as mark:
            mark.sendall(b"mark \r\n\r\n")
            mark.settimeout(10)
            mark.recv(100)
deadline = time.monotonic() + 10
while sum("mark" in text for texts in seen["sinks"].values() for text in texts) < 12:
    if time.monotonic() > deadline:
        sys.exit("a sink does not answer")
    time.sleep(0.005)
seen["sinks"] = {
    key: [text for text in texts if not text.startswith("mark")] for key, texts in seen["sinks"].items()
}
seen["sinks"] = {key: texts for key, texts in seen["sinks"].items() if texts}
seen["status"] = ran.returncode
seen["stdout"] = ran.stdout.decode(errors="replace")
seen["stderr"] = ran.stderr.decode(errors="replace")
print(json.dumps(seen))
