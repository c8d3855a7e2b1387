// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "HeadParser",
  dependencies: [.package(name: "Lupine", path: "../..")],
  targets: [
    .executableTarget(name: "HeadParser", dependencies: [.product(name: "LupineWire", package: "Lupine")])
  ]
)
