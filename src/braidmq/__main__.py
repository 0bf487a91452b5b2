"""`python -m braidmq` is the braidmq program."""

from braidmq.cli.main import main

if __name__ == "__main__":
    main()
