"""What the scripts start."""


def main():
    print("everything")
