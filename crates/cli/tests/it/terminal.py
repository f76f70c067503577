"""Runs a program on a terminal. Arguments: a JSON list of steps, then the program.

A step is ["wait", TEXT], ["type", TEXT], ["signal", NUMBER], ["kill-child", NUMBER] or
["resize", ROWS, COLUMNS]. Prints as JSON whether the terminal was raw while the program ran, whether
it is as before at the end, the exit status and the output.
"""
import fcntl, json, os, pty, select, signal, struct, subprocess, sys, termios, time

steps, argv = json.loads(sys.argv[1]), sys.argv[2:]
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
before = termios.tcgetattr(slave)


def own_terminal():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


program = subprocess.Popen(
    argv, stdin=slave, stdout=slave, stderr=subprocess.PIPE, preexec_fn=own_terminal
)
out, raw, deadline = b"", False, time.monotonic() + 60


def take(wait):
    global out
    if select.select([master], [], [], wait)[0]:
        out += os.read(master, 65536)


for step in steps:
    kind = step[0]
    if kind == "wait":
        while step[1].encode() not in out:
            if time.monotonic() > deadline:
                sys.exit("%r did not come: %r" % (step[1], out))
            take(0.05)
        raw = raw or termios.tcgetattr(slave)[3] != before[3]
    elif kind == "type":
        os.write(master, step[1].encode())
    elif kind == "signal":
        os.kill(program.pid, step[1])
    elif kind == "kill-child":
        children = open("/proc/%d/task/%d/children" % (program.pid, program.pid)).read().split()
        os.kill(int(children[0]), step[1])
    elif kind == "resize":
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", step[1], step[2], 0, 0))
while program.poll() is None:
    if time.monotonic() > deadline:
        sys.exit("still running: %r" % out)
    take(0.02)
take(0)
print(json.dumps({
    "raw": raw,
    "restored": termios.tcgetattr(slave) == before,
    "status": program.returncode,
    "out": out.decode(errors="replace"),
    "err": program.stderr.read().decode(errors="replace"),
}))
