internal import ArgumentParser

/// What is kept between runs.
struct SessionOptions: ParsableArguments {
  @Option(
    name: .customLong("session"),
    help: ArgumentHelp(
      """
      Keep cookies, and what --auth gives when the server has accepted it, in this file between runs, for its owner only; it is made when it is \
      missing.
      """, valueName: "file"))
  var path: String?

  @Option(
    help: ArgumentHelp("Keep responses in this directory, and use them again as RFC 9111 says.", valueName: "directory")
  )
  var cache: String?
}
