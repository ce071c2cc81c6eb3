"""`python -m controller`: the controller process of one run. It lives in the run's sandbox and is asked over a socket.

It ends on a Shutdown request or a signal; either way the frameworks' threads are not waited for.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from controller.adapter import Framework
from harmonics_emu.errors import HarmonicsError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m controller", description="Route jobs over OpenFlow switches.")
    parser.add_argument("--socket", type=Path, required=True, help="Unix socket to take requests from")
    parser.add_argument("--openflow-port", type=int, required=True, help="TCP port on 127.0.0.1 to take switches from")
    parser.add_argument("--framework", choices=["os-ken", "ryu"], default="os-ken")
    parser.add_argument("--log", type=Path, help="file to append the log to, instead of standard error")
    arguments = parser.parse_args()
    try:
        # Ryu makes locks and sockets green, so it comes before the logging and before all modules that hold any.
        framework = Framework(arguments.framework)
        logging.basicConfig(
            filename=arguments.log, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        _serve(framework, arguments)
    except HarmonicsError as error:
        print(f"controller: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except Exception:
        logging.exception("the controller ends")
        return 1
    return 0


def _serve(framework: Framework, arguments: argparse.Namespace) -> None:
    from controller.server import serve
    from controller.service import ControllerService
    from harmonics_emu.emulate.wire import listen

    listener = listen(arguments.socket)
    try:
        service = ControllerService()
        framework.start(arguments.openflow_port, service)
        serve(listener, service)
    finally:
        arguments.socket.unlink(missing_ok=True)


if __name__ == "__main__":
    status = main()
    logging.shutdown()
    # The frameworks' threads never end, and waiting for them is all that a plain exit would do.
    os._exit(status)
