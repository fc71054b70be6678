from dashboard.command import main

main()
